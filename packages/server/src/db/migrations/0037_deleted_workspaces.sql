-- The builds of workspaces that were deleted long ago are purged: background/purge-deleted.ts.

ALTER TABLE workspaces
  ADD COLUMN deleted_at timestamptz,
  -- How much of a deleted workspace's builds is left: all; what lists and insights read; the latest build.
  ADD COLUMN history text NOT NULL DEFAULT 'whole' CHECK (history IN ('whole', 'figures', 'latest'));

CREATE FUNCTION set_workspace_deleted_at() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.deleted_at = now();
  RETURN NEW;
END $$;
CREATE TRIGGER deleted_at BEFORE UPDATE OF deleted ON workspaces
  FOR EACH ROW WHEN (NEW.deleted AND NOT OLD.deleted) EXECUTE FUNCTION set_workspace_deleted_at();

UPDATE workspaces w SET deleted_at = coalesce(
    (SELECT j.completed_at FROM workspace_builds b JOIN provisioner_jobs j ON j.id = b.job_id WHERE b.id = w.latest_build_id),
    w.updated_at)
  WHERE w.deleted;

CREATE INDEX workspaces_deleted ON workspaces (history, deleted_at) WHERE deleted_at IS NOT NULL AND history <> 'latest';
CREATE INDEX provisioner_jobs_dry_runs ON provisioner_jobs (completed_at) WHERE type = 'template_version_dry_run';
-- PostgreSQL looks for references to each row that it deletes.
CREATE INDEX workspace_agents_parent ON workspace_agents (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX orphan_states_build ON orphan_states (workspace_build_id);
