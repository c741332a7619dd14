-- Tokens with scopes and allow lists.
-- oldest program: 61
-- runs: in one transaction

-- Names of scopes. Null: the one in the column "scope".
ALTER TABLE api_keys ADD COLUMN scopes text[];
-- Objects that the token may use: entries "type:id", with * for all types or all objects of a type.
ALTER TABLE api_keys ADD COLUMN allow_list text[] NOT NULL DEFAULT '{*:*}';
