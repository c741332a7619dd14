import { Type } from 'typebox';
import { AuditLogResponse, ConnectionLogResponse, CreateTestAuditLogRequest } from '../schema/audit.ts';
import { Whole } from '../schema/kit.ts';
import { Nothing, route } from './kit.ts';
import { unknownKeys } from './unknown-keys.ts';

const page = Type.Object({
  q: Type.Optional(Type.String()),
  limit: Type.Optional(Whole),
  offset: Type.Optional(Whole),
});
const filter = Type.Object({ q: Type.Optional(Type.String()) });

export const auditRoutes = {
  'GET /audit': route({
    tag: 'Audit',
    auth: 'session',
    query: page,
    responses: { 200: AuditLogResponse },
  }),
  'GET /audit/export': route({
    tag: 'Audit',
    auth: 'session',
    summary: 'Download all matching entries of the audit log, newest first, as one JSON object per line.',
    stream: 'lines',
    query: filter,
    responses: { 200: Nothing },
  }),
  'POST /audit/testgenerate': route({
    tag: 'Audit',
    auth: 'session',
    body: CreateTestAuditLogRequest,
    unknownKeys: unknownKeys('report'),
    responses: { 204: Nothing },
  }),
  'GET /connectionlog': route({
    tag: 'Enterprise',
    auth: 'session',
    query: page,
    responses: { 200: ConnectionLogResponse },
  }),
  'GET /connectionlog/export': route({
    tag: 'Enterprise',
    auth: 'session',
    summary: 'Download all matching entries of the connection log, newest first, as one JSON object per line.',
    stream: 'lines',
    query: filter,
    responses: { 200: Nothing },
  }),
} as const;
