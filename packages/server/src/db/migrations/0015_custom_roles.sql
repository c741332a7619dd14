-- Roles that an organization defines. A member has them by name, beside the built-in roles.

CREATE TABLE custom_roles (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name text NOT NULL,
  display_name text NOT NULL DEFAULT '',
  -- {"<resource type>": ["<action>", …]}, in the whole organization
  permissions jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX custom_roles_name ON custom_roles (organization_id, lower(name));
