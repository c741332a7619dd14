-- How far the numbered lines of a log are stored, by what numbers them: lines that are sent again are stored once.

ALTER TABLE provisioner_jobs ADD COLUMN log_positions jsonb NOT NULL DEFAULT '{}';

-- Of the present life of the agent: {"run": …, "sources": {…}}.
ALTER TABLE workspace_agents ADD COLUMN log_positions jsonb NOT NULL DEFAULT '{}';
