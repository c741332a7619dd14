import { queryOptions } from '@tanstack/react-query';

interface Icon {
  name: string;
  url: string;
  title: string;
}

/** The icons that the server has. */
export const iconsQuery = queryOptions({
  queryKey: ['icons'],
  async queryFn() {
    const answer = await fetch('/icon/icons.json');
    if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
    return (await answer.json()) as Icon[];
  },
});
