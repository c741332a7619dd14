-- Apps that sign people in with this server (OAuth 2), with their secrets, codes and tokens.
-- oldest program: 61
-- runs: in one transaction

CREATE TABLE oauth2_provider_apps (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  name text NOT NULL,
  icon text NOT NULL DEFAULT '',
  callback_url text NOT NULL,
  -- Never empty. The first one is callback_url.
  redirect_uris text[] NOT NULL,
  -- A public app has no secret.
  client_type text NOT NULL DEFAULT 'confidential' CHECK (client_type IN ('confidential', 'public')),
  dynamically_registered boolean NOT NULL DEFAULT false,
  -- The metadata of RFC 7591 that the app registered.
  metadata jsonb NOT NULL DEFAULT '{}',
  -- Scopes that the app may ask for, separated by spaces. Empty: all.
  scope text NOT NULL DEFAULT '',
  -- The hash of the token that manages the registration. Null for apps of administrators.
  registration_hash bytea,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX oauth2_provider_apps_registered ON oauth2_provider_apps (created_at) WHERE dynamically_registered;

-- A secret, code or refresh token is `coder_<prefix>_<secret>`. Only the SHA-256 of the secret is kept.
CREATE TABLE oauth2_provider_app_secrets (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  app_id uuid NOT NULL REFERENCES oauth2_provider_apps (id) ON DELETE CASCADE,
  secret_prefix text NOT NULL UNIQUE,
  hashed_secret bytea NOT NULL,
  -- The last characters of the secret, which tell secrets apart.
  display_secret text NOT NULL,
  last_used_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX oauth2_provider_app_secrets_app ON oauth2_provider_app_secrets (app_id);

CREATE TABLE oauth2_provider_app_codes (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  secret_prefix text NOT NULL UNIQUE,
  hashed_secret bytea NOT NULL,
  app_id uuid NOT NULL REFERENCES oauth2_provider_apps (id) ON DELETE CASCADE,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  scopes text[] NOT NULL,
  -- As the request for the code contained it. Null: it was absent.
  redirect_uri text,
  resource_uri text,
  code_challenge text,
  -- The family of the tokens that were made from the code. Null: the code is unused.
  family uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);
CREATE INDEX oauth2_provider_app_codes_user ON oauth2_provider_app_codes (user_id, app_id);
CREATE INDEX oauth2_provider_app_codes_app ON oauth2_provider_app_codes (app_id);
CREATE INDEX oauth2_provider_app_codes_expiry ON oauth2_provider_app_codes (expires_at);

-- Refresh tokens. All that follow from one code are a family. Used ones stay until they expire, to detect a second use.
CREATE TABLE oauth2_provider_app_tokens (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  family uuid NOT NULL,
  hash_prefix text NOT NULL UNIQUE,
  refresh_hash bytea NOT NULL,
  app_id uuid NOT NULL REFERENCES oauth2_provider_apps (id) ON DELETE CASCADE,
  -- The secret that the app used. Null: it is public.
  app_secret_id uuid REFERENCES oauth2_provider_app_secrets (id) ON DELETE CASCADE,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  scopes text[] NOT NULL,
  audience text,
  -- The access token of an unused refresh token. A refresh token ends with it.
  api_key_id text REFERENCES api_keys (id) ON DELETE CASCADE,
  used_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  CHECK ((api_key_id IS NULL) = (used_at IS NOT NULL))
);
CREATE INDEX oauth2_provider_app_tokens_family ON oauth2_provider_app_tokens (family);
CREATE INDEX oauth2_provider_app_tokens_user ON oauth2_provider_app_tokens (user_id, app_id);
CREATE INDEX oauth2_provider_app_tokens_app ON oauth2_provider_app_tokens (app_id);
CREATE INDEX oauth2_provider_app_tokens_secret ON oauth2_provider_app_tokens (app_secret_id);
CREATE INDEX oauth2_provider_app_tokens_key ON oauth2_provider_app_tokens (api_key_id);
CREATE INDEX oauth2_provider_app_tokens_expiry ON oauth2_provider_app_tokens (expires_at);

-- The resource for which an app got the token (RFC 8707). Null: every route.
ALTER TABLE api_keys ADD COLUMN audience text;
