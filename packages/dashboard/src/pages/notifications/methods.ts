import { ownValue } from '@ropewalk/kit/own-value';
import { useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../api/query.ts';

const METHODS: Readonly<Record<string, string>> = { smtp: 'Email', webhook: 'Webhook', inbox: 'Inbox only' };

/** The name of a method. */
export const methodName = (method: string): string => ownValue(METHODS, method) ?? method;

/** How this server sends notifications. */
export function useMethods() {
  const methods = useQuery(apiQuery('GET /notifications/dispatch-methods', [])).data;
  const usual = methods?.default ?? '';
  const configured = methods?.configured ?? [];
  return {
    available: methods?.available ?? [],
    configured,
    /** The method of templates that have none. */
    usual,
    /** The method of a template, if the server is not configured to use it. */
    missing(method: string): string | undefined {
      const used = method || usual;
      return methods && used !== 'inbox' && !configured.includes(used) ? used : undefined;
    },
  };
}
