//! Makes types whose kind is known only at run time usable in kube's watches.

/// Implements `kube::Resource` for a type that has an `ObjectMeta` in a field `metadata` and whose kind is an
/// `ApiResource`. With `metadata only`, its requests ask only for metadata. A generic type names its parameters, whether
/// it is requested as metadata, and where it has the `ObjectMeta`: `[const METADATA: bool] Asked<METADATA>, METADATA,
/// 0.metadata`.
#[macro_export]
macro_rules! dynamic_resource {
    ([$($parameters:tt)*] $type:ty, $metadata_only:expr, $($metadata:tt).+) => {
        impl<$($parameters)*> ::kube::Resource for $type {
            type DynamicType = ::kube::core::ApiResource;
            type Scope = ::kube::core::DynamicResourceScope;

            fn kind(resource: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                resource.kind.as_str().into()
            }

            fn group(resource: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                resource.group.as_str().into()
            }

            fn version(resource: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                resource.version.as_str().into()
            }

            fn api_version(resource: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                resource.api_version.as_str().into()
            }

            fn plural(resource: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                resource.plural.as_str().into()
            }

            fn metadata_api() -> bool {
                $metadata_only
            }

            fn meta(&self) -> &::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.$($metadata).+
            }

            fn meta_mut(&mut self) -> &mut ::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.$($metadata).+
            }
        }
    };
    ($type:ty) => {
        $crate::dynamic_resource!([] $type, false, metadata);
    };
    ($type:ty, metadata only) => {
        $crate::dynamic_resource!([] $type, true, metadata);
    };
}
