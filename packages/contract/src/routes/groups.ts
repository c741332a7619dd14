import { Type } from 'typebox';
import { Response } from '../schema/common.ts';
import { CreateGroupRequest, Group, GroupMembersResponse, PatchGroupRequest } from '../schema/groups.ts';
import { PeopleQuery } from '../schema/users.ts';
import { route } from './kit.ts';
import { unknownKeys } from './unknown-keys.ts';

/** With `exclude_members`, the list of members is empty: there is a route for its pages. */
const withoutMembers = Type.Object({ exclude_members: Type.Optional(Type.Boolean()) });

export const groupsRoutes = {
  'GET /groups': route({
    tag: 'Groups',
    auth: 'session',
    summary: 'Lists the groups that the caller may read, of all organizations or filtered.',
    query: Type.Object({
      /** An organization's id or name. */
      organization: Type.Optional(Type.String()),
      /** A user's id or name. */
      has_member: Type.Optional(Type.String()),
      /** Separated by commas. */
      group_ids: Type.Optional(Type.String()),
    }),
    responses: { 200: Type.Array(Group) },
  }),
  'GET /groups/{group}': route({
    tag: 'Groups',
    auth: 'session',
    params: Type.Object({ group: Type.String() }),
    query: withoutMembers,
    responses: { 200: Group },
  }),
  'GET /groups/{group}/members': route({
    tag: 'Groups',
    auth: 'session',
    summary: 'Lists members of a group by user name.',
    params: Type.Object({ group: Type.String() }),
    query: PeopleQuery,
    responses: { 200: GroupMembersResponse },
  }),
  'PATCH /groups/{group}': route({
    tag: 'Groups',
    auth: 'session',
    params: Type.Object({ group: Type.String() }),
    body: PatchGroupRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: Group },
  }),
  'DELETE /groups/{group}': route({
    tag: 'Groups',
    auth: 'session',
    params: Type.Object({ group: Type.String() }),
    // Upstream's API document has the group. Its programs send and read a message.
    responses: { 200: Response },
  }),
  'GET /organizations/{organization}/groups': route({
    tag: 'Groups',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    responses: { 200: Type.Array(Group) },
  }),
  'POST /organizations/{organization}/groups': route({
    tag: 'Groups',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    body: CreateGroupRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 201: Group },
  }),
  'GET /organizations/{organization}/groups/{groupName}': route({
    tag: 'Groups',
    auth: 'session',
    params: Type.Object({ organization: Type.String(), groupName: Type.String() }),
    query: withoutMembers,
    responses: { 200: Group },
  }),
  'GET /organizations/{organization}/groups/{groupName}/members': route({
    tag: 'Groups',
    auth: 'session',
    summary: 'Lists members of a group by user name.',
    params: Type.Object({ organization: Type.String(), groupName: Type.String() }),
    query: PeopleQuery,
    responses: { 200: GroupMembersResponse },
  }),
} as const;
