-- What agents report: resource monitors, connections, app statuses, dev containers; and what makes reports cheap.

ALTER TABLE workspace_agents
  -- Until when the first connection is waited for. Empty once it came, was told to be late, or where nobody waits.
  ADD COLUMN connect_deadline timestamptz,
  -- The line of the log that says where it was cut: what is after it is the tail, of which only the newest is kept.
  ADD COLUMN log_cut_id bigint,
  -- Whether its present connection serves streams: agents of the published platform do not.
  ADD COLUMN reachable boolean,
  -- In words, which resources are used beyond what the template allows: beside the agent, since every list shows it.
  ADD COLUMN resource_alerts text NOT NULL DEFAULT '';
-- Each connected agent's row is written every few seconds: leave room to do that in place.
ALTER TABLE workspace_agents SET (fillfactor = 70);
ALTER TABLE workspace_agent_metadata SET (fillfactor = 70);
CREATE INDEX workspace_agents_connect_deadline ON workspace_agents (connect_deadline) WHERE connect_deadline IS NOT NULL;

UPDATE workspace_agents a SET log_cut_id = (SELECT min(l.id) FROM workspace_agent_logs l
  WHERE l.agent_id = a.id AND l.output LIKE 'The log is longer than is kept%') WHERE logs_overflowed;

-- The order that the template gives them.
ALTER TABLE workspace_agent_scripts ADD COLUMN display_order integer NOT NULL DEFAULT 0;

CREATE TABLE workspace_agent_devcontainers (
  id uuid PRIMARY KEY,
  workspace_agent_id uuid NOT NULL REFERENCES workspace_agents (id) ON DELETE CASCADE,
  name text NOT NULL,
  workspace_folder text NOT NULL,
  config_path text NOT NULL DEFAULT ''
);
CREATE INDEX workspace_agent_devcontainers_agent ON workspace_agent_devcontainers (workspace_agent_id);

ALTER TABLE workspace_agent_stats
  ADD COLUMN connection_count bigint NOT NULL DEFAULT 0,
  ADD COLUMN connections_by_proto jsonb NOT NULL DEFAULT '{}',
  ADD COLUMN rx_packets bigint NOT NULL DEFAULT 0,
  ADD COLUMN tx_packets bigint NOT NULL DEFAULT 0;
CREATE INDEX workspace_agent_stats_agent ON workspace_agent_stats (agent_id, created_at);

-- What a template wants watched, and how it stands.
CREATE TABLE workspace_agent_monitors (
  agent_id uuid NOT NULL REFERENCES workspace_agents (id) ON DELETE CASCADE,
  -- Of a volume; empty: the memory.
  path text NOT NULL,
  enabled boolean NOT NULL,
  -- In percent: at this much a reading counts as high.
  threshold integer NOT NULL,
  alerting boolean NOT NULL DEFAULT false,
  changed_at timestamptz NOT NULL DEFAULT now(),
  -- No further alert before this.
  quiet_until timestamptz,
  used bigint,
  total bigint,
  measured_at timestamptz,
  PRIMARY KEY (agent_id, path)
);

CREATE TABLE connection_logs (
  id uuid PRIMARY KEY,
  connect_time timestamptz NOT NULL,
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  workspace_owner_id uuid NOT NULL,
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  workspace_name text NOT NULL,
  agent_name text NOT NULL,
  type text NOT NULL,
  ip text NOT NULL DEFAULT '',
  code integer,
  user_agent text,
  user_id uuid,
  slug_or_port text,
  connection_id uuid,
  disconnect_time timestamptz,
  disconnect_reason text
);
CREATE UNIQUE INDEX connection_logs_connection ON connection_logs (connection_id, workspace_id, agent_name)
  WHERE connection_id IS NOT NULL;
CREATE INDEX connection_logs_time ON connection_logs (connect_time DESC);

-- What the app last said of its work, newest first; with the app, since every list of workspaces shows it.
ALTER TABLE workspace_apps ADD COLUMN statuses jsonb NOT NULL DEFAULT '[]';
