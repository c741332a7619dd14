-- The agent inside a dev container, which the build creates if the template gives it apps, scripts or variables.
ALTER TABLE workspace_agent_devcontainers ADD COLUMN subagent_id uuid;
