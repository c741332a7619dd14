import { Type } from 'typebox';
import { Response } from '../schema/common.ts';
import { documentedAlso } from '../schema/kit.ts';
import {
  AssignableRoles,
  CreateOrganizationRequest,
  CustomRoleRequest,
  Organization,
  OrganizationMember,
  OrganizationMemberWithUserData,
  PaginatedMembersResponse,
  PeopleQuery,
  Role,
  UpdateOrganizationRequest,
  UpdateRoles,
} from '../schema/users.ts';
import { Nothing, route } from './kit.ts';
import { unknownKeys } from './unknown-keys.ts';

const arrayOfPages = Type.Array(PaginatedMembersResponse);

export const organizationsRoutes = {
  'GET /organizations': route({
    tag: 'Organizations',
    auth: 'session',
    responses: { 200: Type.Array(Organization) },
  }),
  'POST /organizations': route({
    tag: 'Organizations',
    auth: 'session',
    body: CreateOrganizationRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 201: Organization },
  }),
  'GET /organizations/{organization}': route({
    tag: 'Organizations',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    responses: { 200: Organization },
  }),
  'DELETE /organizations/{organization}': route({
    tag: 'Organizations',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    responses: { 200: Response },
  }),
  'PATCH /organizations/{organization}': route({
    tag: 'Organizations',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    body: UpdateOrganizationRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: Organization },
  }),
  'GET /organizations/{organization}/members': route({
    tag: 'Members',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    responses: { 200: Type.Array(OrganizationMemberWithUserData) },
  }),
  'GET /organizations/{organization}/paginated-members': route({
    tag: 'Members',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    query: PeopleQuery,
    // Upstream's API document has an array of these. Its programs send and read a single one.
    responses: { 200: documentedAlso(Type.Object(PaginatedMembersResponse.properties), arrayOfPages) },
  }),
  'GET /organizations/{organization}/members/roles': route({
    tag: 'Members',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    responses: { 200: Type.Array(AssignableRoles) },
  }),
  // Upstream's API document has an array of roles for these. Its programs send and read a single one.
  'POST /organizations/{organization}/members/roles': route({
    tag: 'Members',
    auth: 'session',
    summary: 'Creates a custom role.',
    params: Type.Object({ organization: Type.String() }),
    body: CustomRoleRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: documentedAlso(Type.Object(Role.properties), Type.Array(Role)) },
  }),
  'PUT /organizations/{organization}/members/roles': route({
    tag: 'Members',
    auth: 'session',
    summary: 'Replaces the permissions of a custom role.',
    params: Type.Object({ organization: Type.String() }),
    body: CustomRoleRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: documentedAlso(Type.Object(Role.properties), Type.Array(Role)) },
  }),
  'DELETE /organizations/{organization}/members/roles/{roleName}': route({
    tag: 'Members',
    auth: 'session',
    summary: 'Deletes a custom role and takes it from its members.',
    params: Type.Object({ organization: Type.String(), roleName: Type.String() }),
    responses: { 204: Nothing },
  }),
  // of upstream since 2.32
  'GET /organizations/{organization}/members/{user}': route({
    tag: 'Members',
    auth: 'session',
    params: Type.Object({ organization: Type.String(), user: Type.String() }),
    responses: { 200: OrganizationMemberWithUserData },
  }),
  'POST /organizations/{organization}/members/{user}': route({
    tag: 'Members',
    auth: 'session',
    unknownKeys: unknownKeys('access'),
    params: Type.Object({ organization: Type.String(), user: Type.String() }),
    responses: { 200: OrganizationMember },
  }),
  'DELETE /organizations/{organization}/members/{user}': route({
    tag: 'Members',
    auth: 'session',
    params: Type.Object({ organization: Type.String(), user: Type.String() }),
    responses: { 204: Nothing },
  }),
  'PUT /organizations/{organization}/members/{user}/roles': route({
    tag: 'Members',
    auth: 'session',
    params: Type.Object({ organization: Type.String(), user: Type.String() }),
    body: UpdateRoles,
    unknownKeys: unknownKeys('access'),
    responses: { 200: OrganizationMember },
  }),
} as const;
