-- The accounts that people connected at external auth providers, such as Git hosts.
CREATE TABLE external_auth_links (
  provider_id text NOT NULL,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  access_token text NOT NULL,
  refresh_token text NOT NULL DEFAULT '',
  -- When the access token expires. Null if the provider did not say.
  expires_at timestamptz,
  -- Other fields of the provider's answer that the configuration names.
  extra jsonb NOT NULL DEFAULT '{}',
  -- Why the provider does not accept the tokens any more. Empty while it does.
  failure text NOT NULL DEFAULT '',
  -- One server at a time refreshes the tokens. It holds the row until this time.
  refreshing_until timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (user_id, provider_id)
);
