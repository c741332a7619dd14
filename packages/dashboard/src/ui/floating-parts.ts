/** What opens above the page. It is the largest part of the components, so `floating.ts` loads it when it is needed. */
export { DropdownMenu, Popover } from 'radix-ui';
