/** The largest number that the protocol and the column hold. */
const MOST = 2_147_483_647;

/** A cost as it counts. A daemon could report one below 0, which would give the owner of the workspace credits. */
export const countedCost = (cost: number): number => Math.min(Math.max(cost, 0), MOST);
