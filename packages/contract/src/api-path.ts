/** The path of an address of the API. A route's path is below /api/v2, except where it begins with /api. */
export const apiPath = (path: string): string => (path.startsWith('/api/') ? path : `/api/v2${path}`);
