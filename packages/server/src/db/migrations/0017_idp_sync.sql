-- How claims of the identity provider become memberships. The sync of organizations belongs to the whole deployment and
-- is stored with the default organization.
CREATE TABLE idp_sync_settings (
  kind text NOT NULL CHECK (kind IN ('organization', 'group', 'role')),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  settings jsonb NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (kind, organization_id)
);

-- How a SCIM client names a person. Other accounts are named by their email addresses.
CREATE TABLE scim_names (
  user_id uuid PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
  user_name text NOT NULL,
  external_id text NOT NULL DEFAULT ''
);
CREATE INDEX scim_names_user_name ON scim_names (lower(user_name));
CREATE INDEX scim_names_external_id ON scim_names (external_id);
