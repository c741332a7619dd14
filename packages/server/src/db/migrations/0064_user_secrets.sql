-- Secrets that a person has in all own workspaces, as environment variables or files.
-- oldest program: 61
-- runs: in one transaction

CREATE TABLE user_secrets (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  name text NOT NULL,
  description text NOT NULL DEFAULT '',
  -- Encrypted if the server has keys.
  value text NOT NULL,
  -- The length of the value before it was encrypted. The limits are about it.
  value_bytes integer NOT NULL,
  env_name text NOT NULL DEFAULT '',
  file_path text NOT NULL DEFAULT '',
  enabled boolean NOT NULL DEFAULT true,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT user_secrets_enabled_requires_target CHECK (NOT enabled OR env_name <> '' OR file_path <> '')
);

-- An index has no room for the longest names and paths.
CREATE UNIQUE INDEX user_secrets_name ON user_secrets (user_id, hashtextextended(name, 0));
CREATE UNIQUE INDEX user_secrets_env_name ON user_secrets (user_id, env_name) WHERE env_name <> '';
CREATE UNIQUE INDEX user_secrets_file_path ON user_secrets (user_id, hashtextextended(file_path, 0)) WHERE file_path <> '';
