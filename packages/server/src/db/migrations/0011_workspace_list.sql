-- What lists of workspaces sort and search by is kept with each workspace, so that a page reads an index instead of the
-- latest build and job of every workspace. Triggers keep it up to date.

CREATE FUNCTION workspace_status(transition text, job_status text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE job_status
    WHEN 'running' THEN CASE transition WHEN 'start' THEN 'starting' WHEN 'stop' THEN 'stopping' ELSE 'deleting' END
    WHEN 'succeeded' THEN CASE transition WHEN 'start' THEN 'running' WHEN 'stop' THEN 'stopped' ELSE 'deleted' END
    ELSE job_status END
$$;

ALTER TABLE workspaces
  ADD COLUMN latest_build_id uuid,
  -- of the latest build
  ADD COLUMN status text NOT NULL DEFAULT 'pending',
  ADD COLUMN running boolean NOT NULL GENERATED ALWAYS AS (status = 'running') STORED,
  -- the owner's name, in lower case
  ADD COLUMN owner_sort text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN name_sort text COLLATE "C" NOT NULL GENERATED ALWAYS AS (lower(name)) STORED;

UPDATE workspaces w SET owner_sort = lower(u.username) FROM users u WHERE u.id = w.owner_id;
UPDATE workspaces w SET latest_build_id = b.id, status = workspace_status(b.transition, j.job_status)
  FROM (SELECT DISTINCT ON (workspace_id) id, workspace_id, transition, job_id FROM workspace_builds
    ORDER BY workspace_id, build_number DESC) b
  JOIN provisioner_jobs j ON j.id = b.job_id WHERE b.workspace_id = w.id;

-- the order of lists, with the columns that decide who sees a workspace: the index alone skips most of a long list
CREATE INDEX workspaces_list ON workspaces (running DESC, owner_sort, name_sort) INCLUDE (id, owner_id, organization_id)
  WHERE NOT deleted;

CREATE FUNCTION set_workspace_owner_sort() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT lower(username) INTO NEW.owner_sort FROM users WHERE id = NEW.owner_id;
  RETURN NEW;
END $$;
CREATE TRIGGER owner_sort BEFORE INSERT OR UPDATE OF owner_id ON workspaces
  FOR EACH ROW EXECUTE FUNCTION set_workspace_owner_sort();

CREATE FUNCTION rename_workspaces_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE workspaces SET owner_sort = lower(NEW.username) WHERE owner_id = NEW.id;
  RETURN NULL;
END $$;
CREATE TRIGGER workspaces_owner_sort AFTER UPDATE OF username ON users
  FOR EACH ROW WHEN (OLD.username IS DISTINCT FROM NEW.username) EXECUTE FUNCTION rename_workspaces_owner();

CREATE FUNCTION set_workspace_latest_build() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE workspaces w SET latest_build_id = NEW.id,
      status = workspace_status(NEW.transition, (SELECT job_status FROM provisioner_jobs WHERE id = NEW.job_id))
    WHERE w.id = NEW.workspace_id AND NOT EXISTS (
      SELECT 1 FROM workspace_builds b WHERE b.workspace_id = NEW.workspace_id AND b.build_number > NEW.build_number);
  RETURN NULL;
END $$;
CREATE TRIGGER latest_build AFTER INSERT ON workspace_builds
  FOR EACH ROW EXECUTE FUNCTION set_workspace_latest_build();

CREATE FUNCTION set_workspace_status() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE workspaces w SET status = workspace_status(b.transition, NEW.job_status)
    FROM workspace_builds b WHERE b.job_id = NEW.id AND w.latest_build_id = b.id;
  RETURN NULL;
END $$;
CREATE TRIGGER workspace_status AFTER UPDATE ON provisioner_jobs
  FOR EACH ROW WHEN (NEW.type = 'workspace_build' AND OLD.job_status IS DISTINCT FROM NEW.job_status)
  EXECUTE FUNCTION set_workspace_status();
