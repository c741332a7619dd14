import { useCallback } from 'react';
import { paths } from '../../../util/paths.ts';
import { useGo } from '../../../util/route.ts';

/** The starter template whose import the person asked for, until the form begins it. It is not in the address. */
let requested: string | undefined;

/** Opens the form of a new template, which imports the starter template immediately. No link can do that. */
export function useStarter(): (id: string) => void {
  const go = useGo();
  return useCallback(
    (id) => {
      requested = id;
      go(paths.newTemplate({ exampleId: id }));
    },
    [go],
  );
}

/** Whether the person asked for the import of this starter template. True once for each request. */
export function takeRequest(id: string | undefined): boolean {
  const is = requested !== undefined && requested === id;
  requested = undefined;
  return is;
}
