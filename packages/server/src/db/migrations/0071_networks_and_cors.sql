-- The latencies between a connected agent and the relays, which the agent's JSON and the metrics of every server show. And
-- which templates leave CORS to their apps, and which scripts of an agent wait for others.
-- oldest program: 61
-- runs: in one transaction

ALTER TABLE workspace_agents ADD COLUMN network jsonb;

-- 'simple': the server lets pages of the same owner's apps read answers. 'passthru': only the app decides.
ALTER TABLE templates ADD COLUMN cors_behavior text NOT NULL DEFAULT 'simple';

-- [{"id": of another script of the agent, "any": whether its failure does not matter}]
ALTER TABLE workspace_agent_scripts ADD COLUMN waits_for jsonb NOT NULL DEFAULT '[]';
