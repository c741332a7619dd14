-- Workspaces that are shared with other people and groups, and whose workspaces an organization lets people share.
-- oldest program: 61
-- runs: in one transaction

-- User or group id to "use" or "admin", as in templates. The group Everyone has the organization's id.
ALTER TABLE workspaces ADD COLUMN user_acl jsonb NOT NULL DEFAULT '{}', ADD COLUMN group_acl jsonb NOT NULL DEFAULT '{}';
-- One of "none", "everyone" and "service_accounts".
ALTER TABLE organizations ADD COLUMN shareable_workspace_owners text NOT NULL DEFAULT 'everyone';
