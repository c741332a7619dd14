-- The identity with which a person signs in at a provider, and what the provider gave at the last sign-in or refresh.
CREATE TABLE user_links (
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  login_type text NOT NULL CHECK (login_type IN ('github', 'oidc')),
  -- Never changes at the provider, unlike the email address: `issuer||subject`, or the number of a GitHub account.
  linked_id text NOT NULL,
  access_token text NOT NULL DEFAULT '',
  refresh_token text NOT NULL DEFAULT '',
  -- When the access token expires. Null if the provider did not say.
  expires_at timestamptz,
  claims jsonb NOT NULL DEFAULT '{}',
  -- One server at a time refreshes the tokens. It holds the row until this time.
  refreshing_until timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (user_id, login_type)
);
CREATE UNIQUE INDEX user_links_linked_id ON user_links (login_type, linked_id);
CREATE INDEX user_links_expires_at ON user_links (expires_at);
