-- Ports of workspaces that others than their owners may open, by agent name: a share outlives builds.

CREATE TABLE workspace_agent_port_shares (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  agent_name text NOT NULL,
  port integer NOT NULL CHECK (port BETWEEN 1 AND 65535),
  share_level text NOT NULL CHECK (share_level IN ('owner', 'authenticated', 'organization', 'public')),
  protocol text NOT NULL DEFAULT 'http' CHECK (protocol IN ('http', 'https')),
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (workspace_id, agent_name, port)
);

-- A token for an app's own host, which ends with the session that it was made of.
ALTER TABLE api_keys ADD COLUMN parent_id text REFERENCES api_keys (id) ON DELETE CASCADE;
CREATE INDEX api_keys_parent ON api_keys (parent_id) WHERE parent_id IS NOT NULL;
