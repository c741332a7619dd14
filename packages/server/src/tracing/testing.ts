import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { type handleUnaryCall, Server, ServerCredentials } from '@grpc/grpc-js';

export interface ReceivedSpan {
  traceId: string;
  spanId: string;
  parentId: string;
  name: string;
  kind: number;
  /** In seconds. */
  duration: number;
  attributes: Record<string, unknown>;
  events: { name: string; attributes: Record<string, unknown> }[];
  status: number;
  /** Of the service that sent it. */
  resource: Record<string, unknown>;
}

/** The fields of a message by number: bytes of messages and texts, or numbers. */
function fieldsOf(bytes: Uint8Array): Map<number, unknown[]> {
  const reader = new BinaryReader(bytes);
  const fields = new Map<number, unknown[]>();
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    const read = {
      [WireType.Varint]: () => Number(reader.int64()),
      [WireType.Bit64]: () => reader.fixed64(),
      [WireType.LengthDelimited]: () => reader.bytes(),
      [WireType.Bit32]: () => reader.fixed32(),
    } as Partial<Record<WireType, () => unknown>>;
    const value = read[type]!();
    fields.set(number, [...(fields.get(number) ?? []), value]);
  }
  return fields;
}

const messages = (fields: Map<number, unknown[]>, number: number) =>
  ((fields.get(number) ?? []) as Uint8Array[]).map(fieldsOf);
const text = (fields: Map<number, unknown[]>, number: number, encoding: BufferEncoding = 'utf8') =>
  Buffer.from((fields.get(number)?.[0] as Uint8Array | undefined) ?? []).toString(encoding);

/** A list of KeyValue messages, whose values are texts, booleans or whole numbers here. */
function attributes(fields: Map<number, unknown[]>, number: number): Record<string, unknown> {
  return Object.fromEntries(
    messages(fields, number).map((pair) => {
      const [value] = messages(pair, 2);
      return [text(pair, 1), value!.has(1) ? text(value!, 1) : (value!.get(2)?.[0] ?? value!.get(3)?.[0])];
    }),
  );
}

/** Decodes opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest. */
function spansOf(body: Uint8Array): ReceivedSpan[] {
  return messages(fieldsOf(body), 1).flatMap((resourceSpans) => {
    const resource = attributes(messages(resourceSpans, 1)[0]!, 1);
    return messages(resourceSpans, 2).flatMap((scope) =>
      messages(scope, 2).map((span) => ({
        traceId: text(span, 1, 'hex'),
        spanId: text(span, 2, 'hex'),
        parentId: text(span, 4, 'hex'),
        name: text(span, 5),
        kind: span.get(6)?.[0] as number,
        duration: Number((span.get(8)![0] as bigint) - (span.get(7)![0] as bigint)) / 1e9,
        attributes: attributes(span, 9),
        events: messages(span, 11).map((event) => ({ name: text(event, 2), attributes: attributes(event, 3) })),
        status: (messages(span, 15)[0]?.get(3)?.[0] as number | undefined) ?? 0,
        resource,
      })),
    );
  });
}

/** Receives traces as a collector does, over HTTP. */
export async function startTraceReceiver() {
  const spans: ReceivedSpan[] = [];
  const headers: IncomingHttpHeaders[] = [];
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray());
    headers.push(request.headers);
    if (request.url === '/v1/traces' && request.headers['content-type'] === 'application/x-protobuf') {
      spans.push(...spansOf(request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body));
      response.writeHead(200).end();
    } else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    headers,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Receives traces as a collector does, over gRPC. */
export async function startGrpcTraceReceiver() {
  const spans: ReceivedSpan[] = [];
  const headers: Record<string, unknown>[] = [];
  const server = new Server();
  const receive: handleUnaryCall<Buffer, Buffer> = (call, answer) => {
    headers.push(call.metadata.getMap());
    spans.push(...spansOf(call.request));
    answer(null, Buffer.alloc(0));
  };
  const path = '/opentelemetry.proto.collector.trace.v1.TraceService/Export';
  const unchanged = (bytes: Buffer) => bytes;
  server.register(path, receive, unchanged, unchanged, 'unary');
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (err, port) =>
      err ? reject(err) : resolve(port),
    ),
  );
  return { url: `http://127.0.0.1:${port}`, spans, headers, close: () => server.forceShutdown() };
}
