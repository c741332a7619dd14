-- The listener of a server for the other servers. Empty if they use the relay address, as servers of before this do.
ALTER TABLE replicas ADD COLUMN cluster_address text NOT NULL DEFAULT '';
-- What the server presents there and to the listeners of others, as PEM.
ALTER TABLE replicas ADD COLUMN certificate text NOT NULL DEFAULT '';
