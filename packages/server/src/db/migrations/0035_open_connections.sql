-- Entries of apps and ports in the browser never get a disconnect time, so the index leaves them out.
DROP INDEX connection_logs_open;
CREATE INDEX connection_logs_open ON connection_logs (connect_time DESC, id DESC)
  WHERE connection_id IS NOT NULL AND disconnect_time IS NULL;
