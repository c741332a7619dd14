import type { Service } from './service.ts';

/** `{service: 'ping'}`: gives back what it gets, so that the way there and back can be timed. */
export const pingService: Service = ({ accept }) => {
  const stream = accept();
  stream.on('error', () => {});
  stream.pipe(stream);
};
