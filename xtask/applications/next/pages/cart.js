import { page, redirect, sent, wrongToken } from '../lib/shop';

export { default } from '../lib/view';
export async function getServerSideProps(context) {
  if (context.req.method !== 'POST')
    return page(context, 'Cart', (visit) => visit.cart ?? [], '/cart');
  const form = await sent(context);
  if (!form) return wrongToken();
  // All of the session is in a cookie, which has room for a few items.
  form.visit.cart = [...(form.visit.cart ?? []), form.fields.item].slice(-8);
  form.visit.flashes = ['Added ' + form.fields.item];
  await form.visit.save();
  return redirect('/cart');
}
