-- Whether a provisioner daemon is there: told by its connection, not only guessed from when it was last heard of.

ALTER TABLE provisioner_daemons
  -- Its newest connection: the end of an older one says nothing.
  ADD COLUMN connection_id uuid,
  -- When that ended in order. Empty while it lasts, and where the server was killed: last_seen_at tells then.
  ADD COLUMN disconnected_at timestamptz;
