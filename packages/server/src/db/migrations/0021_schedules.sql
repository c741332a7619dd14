-- When the server has to act on a workspace by itself: start, stop or delete it, or make it dormant. `due_at` is the
-- earliest time at which there may be something to do, never a later one. A change of a value that the time depends on sets it
-- to -infinity, which means "look now". The scheduler then computes the time (app/schedule/decide.ts). A time that moves
-- later (activity) changes nothing: the scheduler looks at the earlier time and moves it.

ALTER TABLE workspaces
  ADD COLUMN due_at timestamptz,
  -- the attempts in a row that failed, and for one that could not even begin a build, why and when the next one comes
  ADD COLUMN automatic_attempts integer NOT NULL DEFAULT 0,
  ADD COLUMN automatic_retry_at timestamptz,
  ADD COLUMN automatic_error text NOT NULL DEFAULT '';

CREATE INDEX workspaces_due ON workspaces (due_at) WHERE due_at IS NOT NULL;

CREATE FUNCTION look_at_workspace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.due_at := CASE WHEN NOT NEW.deleted AND NEW.latest_build_id IS NOT NULL THEN '-infinity'::timestamptz END;
  IF TG_OP = 'UPDATE' THEN
    IF NEW.status <> OLD.status THEN
      IF NEW.status = 'failed' THEN
        NEW.automatic_attempts := OLD.automatic_attempts + 1;
      ELSIF NEW.status IN ('running', 'stopped', 'deleted') THEN
        NEW.automatic_attempts := 0;
      END IF;
    END IF;
    IF NEW.latest_build_id IS DISTINCT FROM OLD.latest_build_id
        OR NEW.autostart_schedule IS DISTINCT FROM OLD.autostart_schedule THEN
      NEW.automatic_retry_at := NULL;
      NEW.automatic_error := '';
    END IF;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER due BEFORE INSERT OR UPDATE OF status, latest_build_id, autostart_schedule, dormant_at, deleting_at,
    owner_id, template_id, deleted ON workspaces
  FOR EACH ROW EXECUTE FUNCTION look_at_workspace();

-- a deadline that moves later needs no look before the earlier one
CREATE FUNCTION look_at_deadline() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE workspaces SET due_at = '-infinity' WHERE latest_build_id = NEW.id AND NOT deleted;
  RETURN NULL;
END $$;
CREATE TRIGGER deadline AFTER UPDATE OF deadline ON workspace_builds
  FOR EACH ROW WHEN (NEW.deadline IS NOT NULL AND (OLD.deadline IS NULL OR NEW.deadline < OLD.deadline))
  EXECUTE FUNCTION look_at_deadline();

CREATE FUNCTION look_at_template() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE workspaces SET due_at = '-infinity',
      next_start_at = CASE WHEN NEW.allow_user_autostart = OLD.allow_user_autostart AND NEW.autostart_days = OLD.autostart_days
        THEN next_start_at END
    WHERE template_id = NEW.id AND NOT deleted;
  RETURN NULL;
END $$;
CREATE TRIGGER schedule AFTER UPDATE OF allow_user_autostart, autostart_days, failure_ttl_ms, time_til_dormant_ms,
    time_til_dormant_autodelete_ms ON templates
  FOR EACH ROW WHEN ((OLD.allow_user_autostart, OLD.autostart_days, OLD.failure_ttl_ms, OLD.time_til_dormant_ms,
      OLD.time_til_dormant_autodelete_ms)
    IS DISTINCT FROM (NEW.allow_user_autostart, NEW.autostart_days, NEW.failure_ttl_ms, NEW.time_til_dormant_ms,
      NEW.time_til_dormant_autodelete_ms))
  EXECUTE FUNCTION look_at_template();

-- the workspaces of suspended people stop, and those of people who are not active do not start
CREATE FUNCTION look_at_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE workspaces SET due_at = '-infinity' WHERE owner_id = NEW.id AND NOT deleted;
  RETURN NULL;
END $$;
CREATE TRIGGER workspaces_due AFTER UPDATE OF status ON users
  FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION look_at_owner();

-- the scheduler looks at every existing workspace once
UPDATE workspaces SET due_at = '-infinity' WHERE NOT deleted AND latest_build_id IS NOT NULL;
