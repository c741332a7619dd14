-- The agent inside a dev container, which the build creates if the template gives it apps, scripts or variables.
ALTER TABLE workspace_agent_devcontainers ADD COLUMN subagent_id uuid;

-- How many creations of a workspace for the preset's pool could not even begin, because its values are wrong.
ALTER TABLE template_version_presets ADD COLUMN prebuild_failed_attempts integer NOT NULL DEFAULT 0;
