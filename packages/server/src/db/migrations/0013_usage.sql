-- What insights count. Agents' statistics say how many sessions there are at a moment. This is their summary: for each
-- workspace and half hour one row, with one bit for each minute of use, so that reports of several agents and servers
-- that name the same minute count once.

CREATE TABLE workspace_usage (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  -- The first minute of the half hour.
  start_time timestamptz NOT NULL,
  -- Bit n is minute n.
  ssh integer NOT NULL DEFAULT 0,
  vscode integer NOT NULL DEFAULT 0,
  jetbrains integer NOT NULL DEFAULT 0,
  reconnecting_pty integer NOT NULL DEFAULT 0,
  -- The sum and number of the latencies that agents measured, in ms.
  latency_sum double precision NOT NULL DEFAULT 0,
  latency_count integer NOT NULL DEFAULT 0,
  PRIMARY KEY (workspace_id, start_time)
);
-- The open half hour of a busy workspace is written every few seconds: leave room to do that in place.
ALTER TABLE workspace_usage SET (fillfactor = 70);
CREATE INDEX workspace_usage_start ON workspace_usage (start_time);

CREATE TABLE workspace_app_usage (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  start_time timestamptz NOT NULL,
  slug text NOT NULL,
  minutes integer NOT NULL DEFAULT 0,
  PRIMARY KEY (workspace_id, start_time, slug)
);
ALTER TABLE workspace_app_usage SET (fillfactor = 70);
CREATE INDEX workspace_app_usage_start ON workspace_app_usage (start_time);

-- The start of the half hour of a time, and the bit of its minute.
CREATE FUNCTION usage_start(at timestamptz) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
  AS $$ SELECT to_timestamp(floor(extract(epoch FROM at) / 1800) * 1800) $$;
CREATE FUNCTION usage_minute(at timestamptz) RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE
  AS $$ SELECT 1 << (floor(extract(epoch FROM at) / 60)::bigint % 30)::integer $$;
-- The number of bits that are set: bit_count is newer than PostgreSQL 13.
CREATE FUNCTION usage_minutes(bits integer) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT length(replace(bits::bit(32)::text, '0', '')) $$;

INSERT INTO workspace_usage
SELECT s.workspace_id, usage_start(s.created_at),
  coalesce(bit_or(usage_minute(s.created_at)) FILTER (WHERE session_count_ssh > 0), 0),
  coalesce(bit_or(usage_minute(s.created_at)) FILTER (WHERE session_count_vscode > 0), 0),
  coalesce(bit_or(usage_minute(s.created_at)) FILTER (WHERE session_count_jetbrains > 0), 0),
  coalesce(bit_or(usage_minute(s.created_at)) FILTER (WHERE session_count_reconnecting_pty > 0), 0),
  coalesce(sum(connection_median_latency_ms) FILTER (WHERE connection_median_latency_ms > 0), 0),
  count(*) FILTER (WHERE connection_median_latency_ms > 0)
FROM workspace_agent_stats s JOIN workspaces w ON w.id = s.workspace_id
WHERE session_count_ssh + session_count_vscode + session_count_jetbrains + session_count_reconnecting_pty > 0
GROUP BY 1, 2;

-- The status of each account over time.
CREATE TABLE user_status_changes (
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  -- `deleted` ends the count of an account.
  status text NOT NULL CHECK (status IN ('active', 'dormant', 'suspended', 'deleted')),
  changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX user_status_changes_user ON user_status_changes (user_id, changed_at);

INSERT INTO user_status_changes
SELECT id, CASE WHEN deleted THEN 'deleted' ELSE status END, created_at FROM users WHERE NOT is_system;

CREATE FUNCTION record_user_status() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO user_status_changes (user_id, status) VALUES (NEW.id, CASE WHEN NEW.deleted THEN 'deleted' ELSE NEW.status END);
  RETURN NULL;
END $$;
CREATE TRIGGER user_created AFTER INSERT ON users
  FOR EACH ROW WHEN (NOT NEW.is_system) EXECUTE FUNCTION record_user_status();
CREATE TRIGGER user_status_changed AFTER UPDATE ON users
  FOR EACH ROW WHEN (NOT NEW.is_system AND (OLD.status <> NEW.status OR OLD.deleted <> NEW.deleted))
  EXECUTE FUNCTION record_user_status();
