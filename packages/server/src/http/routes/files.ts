import { downloadFile, uploadFile } from '../../app/file/files.ts';
import { defineHandlers } from '../exchange.ts';

export const fileHandlers = defineHandlers({
  'POST /files': async (ctx, { http }) => {
    const { body, headers } = http.request;
    const { response, created } = await uploadFile(
      ctx,
      headers['content-type'] ?? '',
      Buffer.isBuffer(body) ? body : Buffer.alloc(0),
    );
    http.reply.code(created ? 201 : 200);
    return response;
  },
  'GET /files/{fileID}': async (ctx, { params, http }) => {
    const { format = '' } = http.request.query as { format?: string };
    const { contentType, data } = await downloadFile(ctx, params.fileID, format);
    http.reply.type(contentType);
    return data;
  },
});
