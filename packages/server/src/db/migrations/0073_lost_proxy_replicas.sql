-- Processes of workspace proxies that count as gone, because their connection to a server ended.
-- oldest program: 61
-- runs: in one transaction

-- Empty again once the process registers. Programs before this migration ignore it: such a process counts for 75 seconds.
ALTER TABLE workspace_proxy_replicas ADD COLUMN lost_at timestamptz;
