import { queryOptions } from '@tanstack/react-query';

interface Icon {
  name: string;
  url: string;
  title: string;
}

/** The icons whose name or title contains a text. */
export function iconsMatching(icons: readonly Icon[], text: string): readonly Icon[] {
  const wanted = text.trim().toLowerCase();
  return icons.filter(({ name, title }) => `${name} ${title}`.toLowerCase().includes(wanted));
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
