-- The servers that use this database. Each process adds a row when it starts, and repeats its sign of life.
CREATE TABLE replicas (
  id uuid PRIMARY KEY,
  hostname text NOT NULL,
  version text NOT NULL,
  -- Where the other servers reach this one. Empty if it has no such address.
  relay_address text NOT NULL,
  -- An Ed25519 key (SPKI, DER). Only the process has the private key.
  public_key bytea NOT NULL,
  started_at timestamptz NOT NULL,
  seen_at timestamptz NOT NULL,
  database_latency_us integer NOT NULL,
  -- Which other servers it cannot reach, and why. Empty if it reaches all.
  problem text NOT NULL
);

-- The server of the newest connection, which connection_number counts.
ALTER TABLE workspace_agents ADD COLUMN replica_id uuid;
