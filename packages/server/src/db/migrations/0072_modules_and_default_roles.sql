-- Templates whose builds fetch their modules again, and the roles that all members of an organization have.
-- oldest program: 61
-- runs: in one transaction

ALTER TABLE templates ADD COLUMN disable_module_cache boolean NOT NULL DEFAULT false;

-- Names of built-in roles. Programs before this migration give every member the rights of the default.
ALTER TABLE organizations ADD COLUMN default_org_member_roles text[] NOT NULL DEFAULT '{organization-workspace-access}';
