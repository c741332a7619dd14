-- Lists of a member look for shared workspaces only among those of the organization that are shared.
-- oldest program: 61
-- runs: without a transaction

CREATE INDEX CONCURRENTLY IF NOT EXISTS workspaces_shared ON workspaces (organization_id)
  WHERE NOT deleted AND (user_acl <> '{}' OR group_acl <> '{}');
