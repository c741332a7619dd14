-- The conversation that the workspace of a task sent before it stopped.
CREATE TABLE task_snapshots (
  workspace_id uuid PRIMARY KEY REFERENCES workspaces(id) ON DELETE CASCADE,
  messages json NOT NULL,
  created_at timestamptz NOT NULL
);
