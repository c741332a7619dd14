import { Type } from 'typebox';
import { Whole } from '../schema/kit.ts';
import {
  CreateProvisionerKeyRequest,
  CreateProvisionerKeyResponse,
  ProvisionerDaemon,
  ProvisionerJob,
  ProvisionerKey,
  ProvisionerKeyDaemons,
} from '../schema/provisioners.ts';
import { Nothing, route } from './kit.ts';
import { unknownKeys } from './unknown-keys.ts';

export const provisionersRoutes = {
  'GET /organizations/{organization}/provisionerdaemons': route({
    tag: 'Provisioning',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    query: Type.Object({
      limit: Type.Optional(Whole),
      ids: Type.Optional(Type.String()),
      status: Type.Optional(Type.String()),
      tags: Type.Optional(Type.String()),
      // of upstream's newer clients
      offline: Type.Optional(Type.Boolean()),
      max_age: Type.Optional(Type.String()),
    }),
    responses: { 200: Type.Array(ProvisionerDaemon) },
  }),
  'GET /organizations/{organization}/provisionerdaemons/serve': route({
    tag: 'Provisioners',
    auth: 'daemon',
    params: Type.Object({ organization: Type.String() }),
    stream: 'websocket',
    responses: { 101: Nothing },
  }),
  'GET /organizations/{organization}/provisionerjobs': route({
    tag: 'Organizations',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    query: Type.Object({
      limit: Type.Optional(Whole),
      ids: Type.Optional(Type.String()),
      status: Type.Optional(Type.String()),
      tags: Type.Optional(Type.String()),
      initiator: Type.Optional(Type.String()),
    }),
    responses: { 200: Type.Array(ProvisionerJob) },
  }),
  'GET /organizations/{organization}/provisionerjobs/{job}': route({
    tag: 'Organizations',
    auth: 'session',
    params: Type.Object({ organization: Type.String(), job: Type.String() }),
    responses: { 200: ProvisionerJob },
  }),
  'GET /organizations/{organization}/provisionerkeys': route({
    tag: 'Enterprise',
    auth: 'session',
    summary: 'The provisioner keys of an organization, without the reserved ones',
    params: Type.Object({ organization: Type.String() }),
    responses: { 200: Type.Array(ProvisionerKey) },
  }),
  'POST /organizations/{organization}/provisionerkeys': route({
    tag: 'Enterprise',
    auth: 'session',
    summary: 'Creates a provisioner key. Only this answer contains its secret',
    params: Type.Object({ organization: Type.String() }),
    body: CreateProvisionerKeyRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 201: CreateProvisionerKeyResponse },
  }),
  'GET /organizations/{organization}/provisionerkeys/daemons': route({
    tag: 'Enterprise',
    auth: 'session',
    summary: 'The daemons seen within three minutes, by the key they connected with',
    params: Type.Object({ organization: Type.String() }),
    responses: { 200: Type.Array(ProvisionerKeyDaemons) },
  }),
  'DELETE /organizations/{organization}/provisionerkeys/{provisionerkey}': route({
    tag: 'Enterprise',
    auth: 'session',
    summary: 'Deletes a provisioner key by name. Its daemons finish their jobs and cannot reconnect',
    params: Type.Object({ organization: Type.String(), provisionerkey: Type.String() }),
    responses: { 204: Nothing },
  }),
  'GET /provisionerkeys/{provisionerkey}': route({
    tag: 'Enterprise',
    auth: 'daemon',
    summary: 'The key in the header Coder-Provisioner-Daemon-Key. The path is ignored',
    params: Type.Object({ provisionerkey: Type.String() }),
    responses: { 200: ProvisionerKey },
  }),
} as const;
