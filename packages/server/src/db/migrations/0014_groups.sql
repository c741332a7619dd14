-- Groups of an organization's members. They give access to templates and a budget for workspaces.

CREATE TABLE groups (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name text NOT NULL,
  display_name text NOT NULL DEFAULT '',
  avatar_url text NOT NULL DEFAULT '',
  -- What each member may spend in a day, in the unit of the templates' costs.
  quota_allowance integer NOT NULL DEFAULT 0 CHECK (quota_allowance >= 0),
  -- `oidc`: created by the sync with the identity provider.
  source text NOT NULL DEFAULT 'user' CHECK (source IN ('user', 'oidc')),
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (id, organization_id)
);
CREATE UNIQUE INDEX groups_name ON groups (organization_id, lower(name));

-- Members of a group are members of its organization: anyone who leaves the organization leaves its groups. The group
-- Everyone has no rows here.
CREATE TABLE group_members (
  group_id uuid NOT NULL,
  organization_id uuid NOT NULL,
  user_id uuid NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (group_id, user_id),
  FOREIGN KEY (group_id, organization_id) REFERENCES groups (id, organization_id) ON DELETE CASCADE,
  FOREIGN KEY (organization_id, user_id) REFERENCES organization_members (organization_id, user_id) ON DELETE CASCADE,
  CHECK (group_id <> organization_id)
);
CREATE INDEX group_members_user ON group_members (user_id, organization_id);

-- Everyone's id is that of the organization. Its members are all members of the organization.
CREATE FUNCTION create_everyone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO groups (id, organization_id, name) VALUES (NEW.id, NEW.id, 'Everyone');
  RETURN NULL;
END $$;
CREATE TRIGGER organization_created AFTER INSERT ON organizations FOR EACH ROW EXECUTE FUNCTION create_everyone();

INSERT INTO groups (id, organization_id, name) SELECT id, id, 'Everyone' FROM organizations;

CREATE VIEW all_group_members AS
  SELECT group_id, organization_id, user_id FROM group_members
  UNION ALL SELECT organization_id, organization_id, user_id FROM organization_members;
