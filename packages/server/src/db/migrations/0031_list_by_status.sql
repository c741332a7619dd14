-- With the status, a search for it reads the index alone.
DROP INDEX workspaces_list;
CREATE INDEX workspaces_list ON workspaces (running DESC, owner_sort, name_sort)
  INCLUDE (id, owner_id, organization_id, status) WHERE NOT deleted;
