-- The built-in daemons' secret is of one start of the server and in its memory alone.
DELETE FROM site_config WHERE key = 'installation_secret';
