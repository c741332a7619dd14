-- Prebuilt workspaces: the pools of presets. A workspace of a pool belongs to the system user "prebuilds" until a person
-- claims it.

-- Nobody can sign in as this user, and it is in no list of people. Its id is upstream's.
INSERT INTO users (id, username, email, name, login_type, status, is_system)
VALUES ('c42fdf75-3097-471c-8c33-fb52454d81c0',
  -- a person may have the name already
  CASE WHEN EXISTS (SELECT FROM users WHERE lower(username) = 'prebuilds' AND NOT deleted)
    THEN 'prebuilds-' || substr(md5(random()::text), 1, 8) ELSE 'prebuilds' END,
  'prebuilds@system', 'Prebuilds Owner', 'none', 'active', true);

ALTER TABLE workspaces
  -- the preset whose pool the workspace was built for, also after the claim
  ADD COLUMN prebuilt_preset_id uuid REFERENCES template_version_presets (id) ON DELETE SET NULL,
  ADD COLUMN claimed_at timestamptz;
CREATE INDEX workspaces_prebuilt ON workspaces (prebuilt_preset_id) WHERE prebuilt_preset_id IS NOT NULL;

ALTER TABLE template_version_presets
  -- why the last creation could not even begin, and when the next attempt comes
  ADD COLUMN prebuild_error text NOT NULL DEFAULT '',
  ADD COLUMN prebuild_retry_at timestamptz,
  -- when the template's administrators got the message that its builds fail too often
  ADD COLUMN prebuild_limit_reported_at timestamptz;
