-- The starts that follow a stop: a person restarts a workspace. The row is added with the stop build, in one transaction.
-- It goes in the transaction that adds the start build, or when the start can no longer be made.
CREATE TABLE workspace_restarts (
  stop_build_id uuid PRIMARY KEY REFERENCES workspace_builds (id) ON DELETE CASCADE,
  -- the person in whose name the start is made
  initiator_id uuid NOT NULL REFERENCES users (id),
  -- NULL: the version that a start without a chosen one uses at that time. It may be gone by then.
  template_version_id uuid,
  template_version_preset_id uuid,
  parameters jsonb NOT NULL,
  log_level text NOT NULL,
  reason text NOT NULL,
  -- for the audit entry of the start
  request_id text NOT NULL,
  ip text NOT NULL,
  user_agent text NOT NULL
);
