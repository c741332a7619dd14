-- Whether a SCIM client created the account. One that it found by its address keeps its own rules.
ALTER TABLE scim_names ADD COLUMN created boolean NOT NULL DEFAULT false;
-- Clients could adopt any account before, so only accounts that never had a password of their own count as created.
UPDATE scim_names n SET created = true FROM users u
WHERE u.id = n.user_id AND u.login_type <> 'password' AND u.hashed_password = '';

-- Where a mail goes if not to the person's address at the time of sending.
ALTER TABLE notification_messages ADD COLUMN address text;
