import type { Service } from './service.ts';

/** `{service: 'ping'}`: echoes its input, so that the client can measure the round trip. */
export const pingService: Service = ({ accept }) => {
  const stream = accept();
  stream.on('error', () => {});
  stream.pipe(stream);
};
