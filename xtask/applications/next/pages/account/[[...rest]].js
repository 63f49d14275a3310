import { page, redirect, session } from '../../lib/shop';

export { default } from '../../lib/view';
export async function getServerSideProps(context) {
  const { name } = await session(context.req, context.res);
  if (!name) return redirect('/login?next=' + encodeURIComponent(context.resolvedUrl));
  return page(context, 'Account', ['Orders of ' + name], '/logout');
}
