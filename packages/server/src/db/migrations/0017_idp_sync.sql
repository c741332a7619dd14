-- How claims of the identity provider become memberships. The sync of organizations belongs to the whole deployment and
-- is stored with the default organization.
CREATE TABLE idp_sync_settings (
  kind text NOT NULL CHECK (kind IN ('organization', 'group', 'role')),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  settings jsonb NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (kind, organization_id)
);
