-- Accounts that no person signs in to, reminders before automatic stops, and replacement of prebuilt workspaces.
-- oldest program: 61
-- runs: in one transaction

ALTER TABLE users ADD COLUMN is_service_account boolean NOT NULL DEFAULT false;
-- No row is one yet, so PostgreSQL need not read them all while it holds its lock.
ALTER TABLE users ADD CONSTRAINT service_accounts_cannot_sign_in
  CHECK (NOT is_service_account OR (login_type = 'none' AND email = '')) NOT VALID;

-- How long before a workspace's automatic stop its owner is reminded, in ms. 0: not at all.
ALTER TABLE templates ADD COLUMN time_til_autostop_notify_ms bigint NOT NULL DEFAULT 0;
CREATE TRIGGER reminder AFTER UPDATE OF time_til_autostop_notify_ms ON templates
  FOR EACH ROW WHEN (OLD.time_til_autostop_notify_ms <> NEW.time_til_autostop_notify_ms)
  EXECUTE FUNCTION look_at_template();

-- Prebuilt workspaces made before are replaced.
ALTER TABLE template_version_presets ADD COLUMN prebuilds_invalidated_at timestamptz;
