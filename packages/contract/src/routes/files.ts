import { Type } from 'typebox';
import { UploadResponse } from '../schema/common.ts';
import { Nothing, route } from './kit.ts';

export const filesRoutes = {
  'POST /files': route({
    bodyTypes: ['application/x-tar', 'application/zip', 'application/x-zip-compressed'],
    tag: 'Files',
    auth: 'session',
    responses: { 200: UploadResponse, 201: UploadResponse },
  }),
  'GET /files/{fileID}': route({
    stream: 'bytes',
    tag: 'Files',
    auth: 'session',
    params: Type.Object({ fileID: Type.String() }),
    responses: { 200: Nothing },
  }),
} as const;
