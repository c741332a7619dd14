-- The latencies between a connected agent and the relays, which the agent's JSON and the metrics of every server show.
-- oldest program: 61
-- runs: in one transaction

ALTER TABLE workspace_agents ADD COLUMN network jsonb;
