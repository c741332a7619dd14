import type { Workspace } from '@ropewalk/contract';
import { Star } from 'lucide-react';
import { makeChange } from '../../api/query.ts';
import { cx } from '../../ui/classes.ts';
import { setFavorite } from './queries.ts';

/** Marks a workspace of one's own as a favorite. Favorites come first in lists. */
export function FavoriteButton({ workspace }: { workspace: Workspace }) {
  const { favorite, name } = workspace;
  return (
    <button
      type="button"
      aria-pressed={favorite}
      aria-label={`Favorite ${name}`}
      title={favorite ? 'Remove from favorites' : 'Add to favorites'}
      className={cx(
        'flex size-6 shrink-0 items-center justify-center rounded-sm hover:bg-active',
        favorite ? 'text-warn' : 'text-faint hover:text-text',
      )}
      onClick={() => makeChange(() => setFavorite(workspace, !favorite))}
    >
      <Star size={15} aria-hidden="true" fill={favorite ? 'currentColor' : 'none'} />
    </button>
  );
}
