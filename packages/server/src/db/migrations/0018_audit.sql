-- The difference that each change made, and indexes for each filter of the audit log in the order of its list.
ALTER TABLE audit_logs
  ADD COLUMN diff jsonb NOT NULL DEFAULT '{}',
  ADD COLUMN resource_icon text NOT NULL DEFAULT '',
  -- entries of one transaction keep their order
  ALTER COLUMN time SET DEFAULT clock_timestamp(),
  -- An API key has no uuid. Its entries contain the id of its owner instead.
  ALTER COLUMN resource_id TYPE uuid USING CASE
    WHEN resource_id ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' THEN resource_id::uuid
    ELSE coalesce(user_id, '00000000-0000-0000-0000-000000000000') END;

DROP INDEX audit_logs_time;
CREATE INDEX audit_logs_time ON audit_logs (time DESC, id DESC);
CREATE INDEX audit_logs_organization ON audit_logs (organization_id, time DESC, id DESC);
CREATE INDEX audit_logs_user ON audit_logs (user_id, time DESC, id DESC);
CREATE INDEX audit_logs_resource_type ON audit_logs (resource_type, action, time DESC, id DESC);
CREATE INDEX audit_logs_type_time ON audit_logs (resource_type, time DESC, id DESC);
CREATE INDEX audit_logs_action ON audit_logs (action, time DESC, id DESC);
CREATE INDEX audit_logs_resource ON audit_logs (resource_id, time DESC, id DESC);
CREATE INDEX audit_logs_target ON audit_logs (lower(resource_target), time DESC, id DESC);
CREATE INDEX audit_logs_request ON audit_logs (request_id) WHERE request_id <> '';
CREATE INDEX audit_logs_build_reason ON audit_logs ((additional_fields ->> 'build_reason'), time DESC, id DESC)
  WHERE resource_type = 'workspace_build';

-- The same for the connection log.
DROP INDEX connection_logs_time;
CREATE INDEX connection_logs_time ON connection_logs (connect_time DESC, id DESC);
CREATE INDEX connection_logs_organization ON connection_logs (organization_id, connect_time DESC, id DESC);
CREATE INDEX connection_logs_owner ON connection_logs (workspace_owner_id, connect_time DESC, id DESC);
CREATE INDEX connection_logs_workspace ON connection_logs (workspace_id, connect_time DESC, id DESC);
CREATE INDEX connection_logs_user ON connection_logs (user_id, connect_time DESC, id DESC) WHERE user_id IS NOT NULL;
CREATE INDEX connection_logs_type ON connection_logs (type, connect_time DESC, id DESC);
CREATE INDEX connection_logs_open ON connection_logs (connect_time DESC, id DESC) WHERE disconnect_time IS NULL;
