import type { CSPViolation } from '@ropewalk/contract';
import { AppError, type Clock, type Logger } from '@ropewalk/kit';
import { networkOf } from '../../app/values/network.ts';

/** The maximum number of reports of one network in a period. */
const MOST = 20;
const PERIOD_MS = 60_000;
/** The maximum number of networks that are remembered. Beyond them, the oldest are forgotten. */
const MAX_NETWORKS = 10_000;
const LONGEST = 256;

export interface CspReports {
  /**
   * Logs and counts a violation of the content security policy that a browser reports.
   * @throws AppError `rate_limited` if the network of this address reports too many
   */
  take(report: CSPViolation, from: string): void;
}

export interface CspReportsOptions {
  clock: Clock;
  log: Logger;
  /** Counts a report. */
  count?: () => void;
}

export function createCspReports({ clock, log, count = () => {} }: CspReportsOptions): CspReports {
  const periods = new Map<string, { began: number; reports: number }>();
  const allow = (network: string): boolean => {
    const now = clock.monotonic();
    const found = periods.get(network);
    if (found && now - found.began < PERIOD_MS) {
      found.reports += 1;
      return found.reports <= MOST;
    }
    periods.delete(network);
    if (periods.size >= MAX_NETWORKS) periods.delete(periods.keys().next().value!);
    periods.set(network, { began: now, reports: 1 });
    return true;
  };
  return {
    take(body, from) {
      if (!allow(networkOf(from))) throw new AppError('rate_limited', 'Too many reports. Try again in a minute.');
      count();
      // a report outside of the API is not validated
      const report = body['csp-report'] ?? {};
      // the query of a page may contain secrets
      const text = (name: keyof typeof report) => {
        const value: unknown = report[name];
        return typeof value === 'string' ? value.replace(/[?#].*$/s, '').slice(0, LONGEST) : undefined;
      };
      log.warn('a page violated the content security policy', {
        directive: text('effective-directive') ?? text('violated-directive'),
        blocked: text('blocked-uri'),
        page: text('document-uri'),
        source: text('source-file'),
        line: typeof report['line-number'] === 'number' ? report['line-number'] : undefined,
      });
    },
  };
}
